"""Change of the configuration without a restart: reads it again, starts engines, moves requests, drains old engines."""
