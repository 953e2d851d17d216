"""The load client behind ``sonant bench``: asks a speech server as many strangers would, and times what they hear.

It is a client and no more: it knows neither the engine nor the server around it.
"""
