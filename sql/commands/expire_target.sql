-- purpose: targets that have been gone for longer than any raw row of theirs is kept: a name with each new pod
-- parameters: before (UTC)
DELETE FROM target WHERE gone_at < $before
