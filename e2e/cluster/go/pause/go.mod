module llmservice.local/cluster/pause

go 1.26.0
