"""The machine: devices, processes, signals, files. No other room names a device or reads the environment."""
