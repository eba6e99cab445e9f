-- Vectors are kept in memory by those who search them: what was added since is read behind a
-- number, and a scope counts how often one of its episodes was taken away or folded.

CREATE TABLE numbered_vectors (
    added INTEGER PRIMARY KEY AUTOINCREMENT,
    key INTEGER NOT NULL UNIQUE REFERENCES episodes ON DELETE CASCADE,
    scope INTEGER NOT NULL REFERENCES scopes,
    model TEXT NOT NULL,
    vector BLOB NOT NULL
) STRICT;

INSERT INTO numbered_vectors (key, scope, model, vector)
SELECT key, scope, model, vector FROM vectors ORDER BY key;

DROP TABLE vectors;

ALTER TABLE numbered_vectors RENAME TO vectors;

CREATE INDEX vectors_by_scope ON vectors (scope, added);

ALTER TABLE scopes ADD COLUMN removals INTEGER NOT NULL DEFAULT 0;
