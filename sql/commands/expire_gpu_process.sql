-- purpose: raw rows of gpu_process past retention go
-- parameters: before (UTC)
DELETE FROM gpu_process WHERE ts < $before
