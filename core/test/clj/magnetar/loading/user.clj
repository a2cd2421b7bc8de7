(ns magnetar.loading.user
  "A namespace that needs another while it is compiled."
  (:require
   [magnetar.loading.late :as late]))

(def answer late/answer)
