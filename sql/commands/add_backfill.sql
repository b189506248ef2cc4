-- purpose: a span of the past of a source to be read
-- parameters: source, begin_ts, end_ts
INSERT INTO backfill_progress (source, begin_ts, end_ts, done_ts) VALUES ($source, $begin_ts, $end_ts, $begin_ts)
