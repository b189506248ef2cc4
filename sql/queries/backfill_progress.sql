-- purpose: spans of the past that a source is or was read for, oldest first
-- parameters: source
-- grain: one span
SELECT begin_ts, end_ts, done_ts FROM backfill_progress WHERE source = $source ORDER BY begin_ts, end_ts
