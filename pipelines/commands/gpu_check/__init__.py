"""`python -m pipelines gpu-check`: whether this machine's GPU computes what the project promises, and how fast.

    losses   the same steps on the CPU, and on the GPU eager, compiled and in CUDA graphs: equal losses, in fp32 and
             bf16; dropout in a graph is that of the eager step, and new at each step
    resume   a run that was killed and resumed ends as an undisturbed one: with the same bytes where that is promised
    speed    small, base and large as the training loop runs them, beside transformers: tokens/s, memory, first step

Each check is a process of its own, so that none uses the memory, streams or compiled code of another. Without a GPU, or
with `--device cpu`, all checks run on the CPU at a small size.
"""
