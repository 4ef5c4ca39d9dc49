-- An object that is being finalized is still in a weak table that it alone refers to.
local found

do
  local object = {}
  object.weak = setmetatable({object}, {__mode = "v"})
  setmetatable(object, {__gc = function(dead) found = dead.weak[1] end})
end

collectgarbage()
print("its weak table " .. (found and "leads" or "no longer leads") .. " to the object that is finalized")
os.exit(found and 1 or 0)
