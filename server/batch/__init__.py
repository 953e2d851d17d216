"""Several speech requests in one."""
