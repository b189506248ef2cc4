-- purpose: what an earlier run was sending when it ended, or this one longer than a send can take, waits again
-- parameters: run, claimed_before
-- grain of the answer: message
UPDATE outbox SET state = 'waiting', claimed_by = NULL
WHERE state = 'sending' AND (claimed_by IS DISTINCT FROM $run OR claimed_at < $claimed_before)
RETURNING message_id
