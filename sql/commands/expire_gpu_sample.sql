-- purpose: raw rows of gpu_sample past retention go
-- parameters: before (UTC)
DELETE FROM gpu_sample WHERE ts < $before
