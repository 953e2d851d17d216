"""Operating system services: processes, CPU cores, files, logs. Imports no torch."""
