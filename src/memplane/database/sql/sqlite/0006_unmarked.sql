-- What is derived from turns has no marked lines any more: those are observations, or were not fit
-- to be. Turns that may have some are derived anew.
INSERT INTO underived
SELECT agent, at, id FROM episodes WHERE state = 0 AND answer LIKE '%[%memory%'
ON CONFLICT DO NOTHING;
