"""From lines of text to batches: tokenizer.py → packing.py → shards.py → order.py.

1. tokenizer.py  lines become token ids: WordPiece, trained here or published, always with BERT's own rules for words;
                byte_level.py knows ModernBERT's published pieces of bytes; word_cache.py caches the ids of words
2. packing.py    lines become fixed-length rows, [CLS] A [SEP] B [SEP], by ELECTRA's rule or packed without waste
3. shards.py     rows lie on disk as memory-mapped arrays beside a manifest of their hashes
4. order.py      a step's rows are a pure function of (seed, step): a keyed permutation of each epoch
"""
