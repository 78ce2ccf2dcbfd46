"""`python -m pipelines gpu-check`: whether this machine's GPU computes what the project promises, and how fast.

    rates    what large products and copies reach: `estimate` computes with it from then on
    losses   the same steps on the CPU, and on the GPU eager, compiled and in CUDA graphs: equal losses, in fp32 and
             bf16; dropout in a graph is that of the eager step, and new at each step
    networks both encoders with every sharing, a batch in two slices, as a GPU trains them by default: losses of the
             CPU, and weights that stay the networks' own
    finetune the same short fine-tuning of both encoders: losses of the CPU
    resume   a run on rows of two lengths that was killed and resumed ends as an undisturbed one, with the same bytes
             where that is promised, and exports what its checkpoint holds
    speed    small, base and modern-base as the training loop runs them, beside transformers, the roofline and the
             memory's budget: tokens/s, share of the peak, memory, first step

Each check is a process of its own, so that none uses the memory, streams or compiled code of another. Without a GPU, or
with `--device cpu`, all checks run on the CPU at a small size.
"""
