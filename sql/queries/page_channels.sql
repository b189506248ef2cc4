-- purpose: channels whose messages do not get through.
-- grain: channel.
SELECT channel, kind, state, last_error, last_error_at, last_sent_at, failures
FROM channel
WHERE state <> 'ok' AND last_error IS NOT NULL
ORDER BY channel
