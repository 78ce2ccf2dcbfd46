"""Checkpoints, manifests and run folders: how they are saved, found and verified. No result depends
on it.
"""
