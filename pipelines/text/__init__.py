"""Processing of text before it is tokenized: cleaning, sentences, n-grams of words, exact and
near-duplicates.
"""
