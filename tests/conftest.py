import os

# Before anything imports TensorFlow: its C++ log tells of devices and graph passes.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
