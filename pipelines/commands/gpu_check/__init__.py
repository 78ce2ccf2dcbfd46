"""`python -m pipelines gpu-check`: whether this machine's GPU computes what the project promises, and how fast.

    losses   the same steps on the CPU, and on the GPU eager, compiled and recorded: equal losses, in fp32 and bf16; and
             dropout of a recorded step is the eager one's, new at each step
    resume   a run that is killed and goes on ends as one that was not: with the same bytes where that is promised
    speed    small, base and large, as the loop trains them, beside transformers: tokens/s, peak memory, first step

Each check is a process of its own (`python -m pipelines.commands.gpu_check …`), so that none finds memory, streams or
compiled code of another. Without a GPU, or with `--device cpu`, all of it is done on the CPU at a small size.
"""
