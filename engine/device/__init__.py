"""Cards and their memory: the CUDA driver, NVML, where a model runs. Importing it imports no torch."""
