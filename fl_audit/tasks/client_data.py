"""Populations over TFF's `ClientData`, read client by client."""

from collections.abc import Callable, Sequence

import tensorflow_federated as tff

from fl_audit.tasks.classifier import Examples, Population


class ClientDataPopulation(Population):
    """Clients of a TFF data set, each read from disk when it takes part.

    Clients whose data leaves no example would fail in the middle of a run; the data sets of
    TFF have none.
    """

    def __init__(
        self,
        client_data: tff.simulation.datasets.ClientData,
        to_examples: Callable[[list[dict[str, object]]], Examples],
        max_clients: int,
    ) -> None:
        """Wraps a data set.

        Args:
          client_data: of TFF.
          to_examples: makes arrays from one client's elements.
          max_clients: use only the first this many clients; 0 means all of them.
        """
        self.client_ids: Sequence[str] = client_data.client_ids[: max_clients or None]
        self._client_data = client_data
        self._to_examples = to_examples

    def examples(self, client: int) -> Examples:
        """The data of one client."""
        return self._to_examples(elements(self._client_data, self.client_ids[client]))


def elements(
    client_data: tff.simulation.datasets.ClientData, client_id: str
) -> list[dict[str, object]]:
    """One client's elements as NumPy values."""
    return list(client_data.create_tf_dataset_for_client(client_id).as_numpy_iterator())
