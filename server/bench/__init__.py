"""The load client of ``sonant bench``: sends concurrent speech requests and measures when their audio arrives.

It is only an HTTP client: it does not use the engine or the rest of the server.
"""
