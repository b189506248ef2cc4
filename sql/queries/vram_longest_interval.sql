-- purpose: the longest scrape interval of all targets, to bound how far back a newest sample is looked for
-- grain: one row; NULL without targets
SELECT max(interval_seconds) FROM target WHERE gone_at IS NULL
