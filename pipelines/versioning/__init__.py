"""Everything that touches DVC: the digests of code and of input files that it compares, and its
lock files.
"""
