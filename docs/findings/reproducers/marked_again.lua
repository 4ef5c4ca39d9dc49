-- An object that is marked for finalization again keeps the place of its first mark.
local order = {}
local finalized = {__gc = function(object) order[#order + 1] = object.name end}

do
  local a = setmetatable({name = "a"}, finalized)
  local b = setmetatable({name = "b"}, finalized)
  setmetatable(a, nil)
  setmetatable(a, finalized)
end

collectgarbage()
local got = table.concat(order, " ")
print("b was marked first, then a: expected a b, got " .. got)
os.exit(got == "a b" and 0 or 1)
