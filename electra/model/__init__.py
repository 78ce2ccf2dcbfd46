"""The two networks of ELECTRA and what binds them, in the order a token meets them.

encoder → generator → corruption → discriminator → objectives → pretraining.
"""
