-- purpose: raw rows of engine_histogram past retention go
-- parameters: before (UTC)
DELETE FROM engine_histogram WHERE ts < $before
