(ns kv.commands.times
  "Numbers and times in the arguments of commands."
  (:require
   [kv.resp :as resp]))

(set! *warn-on-reflection* true)

(defn integer
  "The argument as a number."
  [text]
  (or (resp/whole-number text)
      (resp/fail "ERR value is not an integer or out of range")))

(def units
  "Options with a time: how many milliseconds a unit has, and whether it is counted from now."
  {:ex {:millis 1000 :from-now true} :px {:millis 1 :from-now true} :exat {:millis 1000} :pxat {:millis 1}})

(defn instant
  "The time that a number of units means, in milliseconds since 1970."
  [now unit text command]
  (let [{:keys [millis from-now]} (units unit)
        n (long (integer text))]
    (try
      (Math/addExact (if from-now (long now) 0) (Math/multiplyExact n (long millis)))
      (catch ArithmeticException _
        (resp/fail (str "ERR invalid expire time in '" command "' command"))))))

(defn deadline
  "As `instant`, for a value that is set: the number has to be above 0."
  [now unit text command]
  (if (pos? (long (integer text)))
    (instant now unit text command)
    (resp/fail (str "ERR invalid expire time in '" command "' command"))))
