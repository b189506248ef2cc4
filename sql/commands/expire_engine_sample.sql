-- purpose: raw rows of engine_sample past retention go
-- parameters: before (UTC)
DELETE FROM engine_sample WHERE ts < $before
