"""What runs on a VM beside the user's code: standard library only, Python 3.7 or newer.

The texts travel as they are in the VM's metadata: ``startup.py`` is its startup script and brings the others.
What differs from job to job is JSON beside them. The backend reads these files and imports none of them.
"""
