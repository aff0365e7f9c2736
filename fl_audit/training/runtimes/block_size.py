"""The number of clients, or models, that train at once where the config does not set it."""

from tensorflow.python.client import device_lib

# On two cores a dense model of 167,178 parameters trained twice as fast in blocks of 8, an LSTM
# of 4.05 million and a CNN of 1.2 million two and five times as fast one by one.
_LARGEST_BLOCK_MODEL_ON_CPU = 500_000
_CLIENTS_PER_BLOCK_ON_CPU = 8
_MODELS_PER_BLOCK_ON_CPU = 32

# A client in training holds its weights, their gradients, the result of the step, its update, and
# activations that the model's size says little about: generously, this many copies of the model.
_COPIES_PER_CLIENT = 12
_MOST_CLIENTS_PER_BLOCK = 64


def default_clients_per_block(dim: int) -> int:
    """How many clients train at once on the device that TensorFlow sees.

    On a GPU this is as many as half of its memory holds, at most 64. On a CPU it is eight for small
    models, whose time goes into starting operations, and one for others, because batched products
    of matrices are slower there than one after another.

    Args:
      dim: The number of trainable parameters.
    """
    return _default_block(dim, _CLIENTS_PER_BLOCK_ON_CPU)


def default_models_per_block(dim: int) -> int:
    """How many models of an attack train at once on the device that TensorFlow sees.

    It is as of clients, but 32 small models on a CPU: a step of so many costs hardly more.

    Args:
      dim: The number of trainable parameters.
    """
    return _default_block(dim, _MODELS_PER_BLOCK_ON_CPU)


def _default_block(dim: int, small_on_cpu: int) -> int:
    gpus = [d for d in device_lib.list_local_devices() if d.device_type == "GPU"]
    if gpus:
        return clients_in_memory(dim, gpus[0].memory_limit)
    return small_on_cpu if dim <= _LARGEST_BLOCK_MODEL_ON_CPU else 1


def clients_in_memory(dim: int, num_bytes: int) -> int:
    """How many clients fit into half of a device's memory, at least 1 and at most 64.

    Args:
      dim: The number of trainable parameters, four bytes each.
      num_bytes: The memory of the device, in bytes.
    """
    fitting = num_bytes // 2 // (_COPIES_PER_CLIENT * 4 * dim)
    return max(1, min(fitting, _MOST_CLIENTS_PER_BLOCK))
