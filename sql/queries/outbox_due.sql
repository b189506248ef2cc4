-- purpose: whether there is anything to do: messages that wait or are being sent, by channel
-- grain: channel
SELECT o.channel, count(*) AS messages, count(*) FILTER (o.state = 'sending') AS sending,
       any_value(c.state) AS channel_state, any_value(c.next_send_at) AS next_send_at, any_value(c.run) AS run,
       min(o.created_at) AS oldest
FROM outbox o LEFT JOIN channel c USING (channel)
WHERE o.state IN ('waiting', 'sending')
GROUP BY o.channel
