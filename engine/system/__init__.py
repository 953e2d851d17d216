"""The operating system: processes, CPU cores, files, logs. Imports no torch."""
