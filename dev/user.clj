(ns user
  "What a developer of Magnetar has at the prompt: (check), (check 'some.ns-test), (again)."
  (:require
   [clojure.string :as str]
   [clojure.test :as t]))

(defn again
  "Loads again, from their sources, the namespaces of Magnetar that are loaded; channels stay as they are."
  []
  (run! #(require % :reload)
        (sort (filter #(re-find #"^magnetar\.(?!dev)" (str %)) (loaded-libs)))))

(defn check
  "Runs the tests of the namespaces, or of all test namespaces of Magnetar that are loaded."
  [& ns-syms]
  (run! #(require % :reload) ns-syms)
  (apply t/run-tests (or ns-syms (filter #(str/ends-with? (str (ns-name %)) "-test") (all-ns)))))
