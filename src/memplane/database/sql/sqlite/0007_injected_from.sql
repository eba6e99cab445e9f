-- What a text in a conversation was made of is one row, not one for each of a hundred entries: it
-- is written with every prompt, and looked through only when something is forgotten.
-- Ids are written by their last sixteen characters, a line each.
CREATE TABLE injected_from (
    injection INTEGER PRIMARY KEY REFERENCES injections ON DELETE CASCADE,
    agent TEXT NOT NULL,
    entries TEXT NOT NULL
) STRICT;

CREATE INDEX injected_from_by_agent ON injected_from (agent);

INSERT INTO injected_from
SELECT injection, agent, group_concat(substr(entry, -16), char(10))
FROM injected_entries GROUP BY injection;

DROP TABLE injected_entries;
