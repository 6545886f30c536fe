"""Brings a newer template into a project that its owner has edited.

Copier renders the old and the new template (`rendering`), git merges both with the project's
last commit (`merging`, `resolution`), the result becomes one list of changes (`changes`), and
`transaction` puts it into the work tree with a journal. Up to that last step nothing of the
project is touched: trees and merges live in a scratch repository.
"""
