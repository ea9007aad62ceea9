-- Health of an LLMService for Argo CD. Without it Argo CD counts the kind as healthy at once, and no wave waits for it.
local health = { status = "Progressing", message = "waiting for the operator" }
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end

local found = {}
for _, condition in ipairs(obj.status.conditions or {}) do
  found[condition.type] = condition
end

local ready = found["Ready"]
if ready == nil then
  return health
end
health.message = ready.reason .. ": " .. (ready.message or "")
if found["Stalled"] ~= nil and found["Stalled"].status == "True" then
  health.status = "Degraded"
elseif ready.status ~= "True" or (found["Reconciling"] ~= nil and found["Reconciling"].status == "True") then
  health.status = "Progressing"
elseif ready.reason == "Suspended" or ready.reason == "ScaledToZero" then
  health.status = "Suspended"
else
  health.status = "Healthy"
end
return health
