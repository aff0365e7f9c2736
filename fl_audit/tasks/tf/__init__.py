"""The functions of models in TensorFlow."""
