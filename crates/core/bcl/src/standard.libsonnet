// What replaces functions of the interpreter's standard library, so that their results are those of Jsonnet's own
// implementation. Every file sees `std + (import of this file)` as `std`.
local items(set) = if std.isString(set) then std.stringChars(set) else set;
{
  // The interpreter answers -0 to '-0'.
  parseInt(str):: local number = super.parseInt(str); if number == 0 then 0 else number,
  // The interpreter takes lists alone; a string is the list of its characters, too.
  setInter(a, b, keyF=function(x) x):: super.setInter(items(a), items(b), keyF),
  setDiff(a, b, keyF=function(x) x):: super.setDiff(items(a), items(b), keyF),
  setUnion(a, b, keyF=function(x) x):: super.setUnion(items(a), items(b), keyF),
  setMember(x, arr, keyF=function(x) x):: super.setMember(x, items(arr), keyF),
}
