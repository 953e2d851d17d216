"""The Wyoming protocol, with which Home Assistant uses speech services. Needs the ``wyoming`` package."""
