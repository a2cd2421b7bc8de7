(ns run
  "bin/magnetar run examples/hot-upgrade/run.clj [CLIENTS]"
  (:require
   [hot-upgrade.main :as main]))

(apply main/-main *command-line-args*)
