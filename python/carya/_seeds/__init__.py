"""The pipelines that cedar's and Pecan's papers measured, in Carya's form and in the seeds' own: for `carya bench seeds`."""
