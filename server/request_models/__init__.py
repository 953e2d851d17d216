"""The JSON bodies of requests, as pydantic models. Routes, live sessions, batches and ``sonant say`` share them."""
