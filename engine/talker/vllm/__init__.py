"""The talker on stock vLLM, as a plugin: docs/decisions.md says why.

vLLM has the decoder layers, the paged cache, batching, preemption and prefix caching; a frame's end and the next input
rows are ``engine.talker.resident``. ``model``, ``state``, ``scheduler``, ``loader`` and ``core`` import vLLM, and
nothing imports those until a configuration asks for them.
"""
