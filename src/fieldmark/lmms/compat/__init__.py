"""What task code finds under the name `lmms_eval`.

Only the modules and names that public task files import, written for fieldmark from how they are
called. Nothing outside such code sees them as `lmms_eval` (see `_imports`). Helpers of
`lmms_eval.tasks` come from the folders the user named; where those hold none, or one that needs a
package which is not installed, from here. What would change a score when it is not the very same
text or table is not offered: the message then asks for lmms-eval's tasks folder.
"""
