"""The talker on stock vLLM, as a plugin; docs/explanation/decisions/vllm-talker.md gives the reasons.

vLLM provides the decoder layers, the paged cache, batching, preemption and prefix caching. ``engine.talker.gpu_step``
samples the frames and builds the next input rows. ``model``, ``state``, ``scheduler`` and ``core`` import vLLM; they
are imported only when the configuration selects vLLM.
"""
