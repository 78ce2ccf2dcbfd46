"""Question answering: rows to windows, windows to spans, spans to answers, answers to the official
figures.
"""
