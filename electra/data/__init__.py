"""From lines of text to batches: tokenizer.py → packing.py → shards.py → order.py.

1. tokenizer.py  turns lines into token ids: WordPiece, trained here or published, by BERT's rules
                 for words; byte_level.py spells ModernBERT's pieces; word_cache.py caches ids
2. packing.py    turns lines into fixed-length rows, [CLS] A [SEP] B [SEP], by ELECTRA's rule or
                 packed without waste
3. shards.py     stores rows as plain arrays, with a manifest of their hashes
4. order.py      gives a step's rows as a function of (seed, step): a keyed permutation an epoch
"""
