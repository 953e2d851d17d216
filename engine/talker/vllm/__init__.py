"""The talker on stock vLLM, as a plugin; docs/explanation/decisions/vllm-talker.md gives the reasons.

vLLM provides the decoder layers, attention, the memory of the paged cache and the CUDA graphs. ``scheduler`` selects
the rows of each step and allocates their cache blocks; ``step_runner`` runs them. ``engine.talker.gpu_step`` samples
the frames and builds the next input rows. ``model``, ``state``, ``step_runner`` and ``core`` import vLLM; they are
imported only when the configuration selects vLLM.
"""
